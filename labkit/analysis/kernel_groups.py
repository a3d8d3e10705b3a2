"""Which part of the kernel's work a function belongs to. Data: names as kernels 6.1 to 6.18 have them."""

from __future__ import annotations

import re
from typing import Final

import msgspec

OTHER, IDLE, USER, FOREIGN, INTERRUPTS = "other", "idle", "user space", "other programs", "interrupts"


class KernelGroup(msgspec.Struct, frozen=True):
    """One part of the work.

    Attributes
    ----------
    name : str
        For tables and figures.
    names : tuple of str
        Functions that belong to it.
    prefixes : tuple of str
        Beginnings of such functions; of all groups' the longest decides, and a whole name before any.
    """

    name: str
    names: tuple[str, ...]
    prefixes: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GROUPS: Final = (
    KernelGroup(
        "system call entry",
        _words(
            "do_syscall_64 do_syscall_x64 el0_svc el0_svc_common invoke_syscall do_el0_svc x64_sys_call "
            "import_iovec __import_iovec import_ubuf fput "
            "copy_iovec_from_user copy_msghdr_from_user copy_compat_msghdr "
            "sendmsg_copy_msghdr sockfd_lookup_light __fdget fdget __fget_light security_socket_sendmsg "
            "sock_sendmsg __sock_sendmsg sock_sendmsg_nosec move_addr_to_kernel iovec_from_user __put_user_4 "
            "__get_user_4 __put_user_8 __get_user_8 __get_user_nocheck_4 aa_sk_perm aa_sock_perm "
            "__cond_resched"
        ),
        _words(
            "entry_SYSCALL_64 entry_SYSRETQ syscall_ __x64_sys_ __arm64_sys_ __sys_send ___sys_send "
            "____sys_send __do_sys_ __se_sys_ el0t_64_sync apparmor_socket_ bpf_lsm_socket_"
        ),
    ),
    KernelGroup(
        "CPU flaw mitigations",
        _words("retbleed_return_thunk its_return_thunk entry_ibpb clear_bhb_loop __x86_return_thunk"),
        _words("srso_ __x86_indirect_ retbleed_ its_ entry_untrain"),
    ),
    KernelGroup(
        "packet socket",
        _words(
            "__skb_flow_dissect eth_header_parse_protocol sock_wfree sock_def_write_space skb_set_owner_w "
            "sock_alloc_send_pskb __skb_get_hash skb_probe_transport_header dev_get_by_index_rcu "
            "dev_get_by_index sock_wmalloc __sock_wfree sk_free sock_tx_timestamp __sock_tx_timestamp "
            "run_filter"
        ),
        _words("packet_ __packet_ tpacket_ prb_ __fanout fanout_"),
    ),
    KernelGroup(
        "AF_XDP socket", _words("xdp_umem_pin_pages"), _words("xsk_ __xsk_ xp_ __xp_ xskq_ xdp_umem_")
    ),
    KernelGroup(
        "skb allocation and free",
        _words(
            "consume_skb __consume_stateless_skb __kfree_skb __build_skb __build_skb_around build_skb "
            "build_skb_around skb_free_head skb_defer_free_flush skb_attempt_defer_free kfree_skbmem "
            "__finalize_skb_around refill_stock free_unref_page __free_pages put_page __folio_put "
            "alloc_pages_noprof __alloc_pages_noprof __alloc_pages alloc_pages get_page_from_freelist "
            "skb_put skb_push skb_pull skb_unref should_failslab __do_kmalloc_node get_partial_node "
            "deactivate_slab allocate_slab new_slab __list_del_entry_valid_or_report "
            "__list_add_valid_or_report put_cpu_partial __list_del_entry_valid __list_add_valid skb_clone "
            "__skb_clone skb_trim cache_from_obj cmpxchg_double_slab setup_object free_pcp_prepare "
            "mod_node_page_state should_fail_alloc_page"
        ),
        _words(
            "alloc_skb __alloc_skb __netdev_alloc netdev_alloc napi_alloc __napi_alloc napi_skb_cache "
            "napi_consume kmem_cache_ kmalloc __kmalloc kfree kvfree sk_skb_reason_drop skb_release_ "
            "kfree_skb __kfree_skb skb_free page_frag_ __page_frag __page_pool page_pool_ ___slab __slab "
            "memcg_ __memcg mod_objcg obj_cgroup skb_page_frag free_to_partial free_from_ ___cache_free "
            "frag_page free_frozen alloc_frozen __alloc_frozen alloc_from_pcs __pcs_ __kmem_cache_ "
            "free_unref_page_"
        ),
    ),
    KernelGroup(
        "memory copy",
        _words(
            "__check_object_size __virt_addr_valid is_vmalloc_addr "
            "check_stack_object __check_heap_object check_heap_object "
            "clear_page_erms clear_page_rep memcpy memset memmove __memcpy __memset __memmove "
            "memcpy_orig memset_orig skb_copy_datagram_from_iter skb_store_bits skb_copy_bits "
            "skb_zerocopy_iter_dgram fault_in_readable fault_in_iov_iter_readable iov_iter_advance"
        ),
        _words(
            "_copy_from_ _copy_to_ __copy_ copy_user_ copy_from_ copy_to_ rep_movs rep_stos copy_page "
            "memset_ memcpy_ csum_partial __arch_copy_ __pi_mem skb_copy_ raw_copy_ zerocopy_ "
            "iov_iter_get_pages"
        ),
    ),
    KernelGroup(
        "transmit path and qdisc",
        _words(
            "dev_hard_start_xmit dev_queue_xmit dev_queue_xmit_nit sch_direct_xmit __qdisc_run qdisc_run "
            "netif_skb_features passthru_features_check netdev_core_pick_tx netdev_pick_tx dev_direct_xmit "
            "__netif_schedule netif_schedule_queue skb_network_protocol skb_mac_gso_segment "
            "__skb_gso_segment skb_segment skb_csum_hwoffload_help sk_validate_xmit_skb net_tx_action "
            "dql_completed skb_tx_error harmonize_features xfrm_dev_backlog "
            "__fq_codel_dequeue"
        ),
        _words(
            "__dev_queue_xmit __dev_direct_xmit validate_xmit_ qdisc_ __qdisc_ pfifo_ bfifo_ fq_ tbf_ mq_ "
            "noop_ sch_ tcf_ tc_ psched_ netdev_tx_ skb_gso_ skb_udp_tunnel udp4_ufo udp6_ufo __udp_gso "
            "netif_tx_ netif_xmit"
        ),
    ),
    KernelGroup(
        "driver",
        _words("loopback_xmit skb_clone_tx_timestamp skb_tstamp_tx __skb_tstamp_tx skb_tx_timestamp"),
        _words(
            "veth_ ifb_ ixgbe_ i40e_ ice_ iavf_ igb_ igc_ e1000_ e1000e_ mlx4_ mlx5_ mlx5e_ bnxt_ bnx2x_ "
            "ena_ tg3_ virtnet_ virtqueue_ vring_ vmxnet3_ hv_ netvsc_ tun_ tap_ gfar_ gianfar_ rtl8169_ "
            "r8169_ dummy_ nsim_ swiotlb_ dma_ iommu_ iowrite ioread"
        ),
    ),
    KernelGroup("pktgen", _words("fill_packet mod_cur_headers kthread_should_stop"), _words("pktgen_")),
    KernelGroup(
        "GRO",
        _words("dev_gro_receive skb_gro_receive skb_gro_checksum"),
        _words(
            "gro_ __gro_ napi_gro_ inet_gro_ ipv6_gro_ udp_gro_ udp4_gro_ udp6_gro_ tcp_gro_ tcp4_gro_ "
            "tcp6_gro_ skb_gro_ eth_gro_ vlan_gro_"
        ),
    ),
    KernelGroup(
        "receive path and softirq",
        _words(
            "process_backlog net_rx_action netdev_core_stats_inc handle_softirqs __do_softirq do_softirq "
            "do_softirq_own_stack __local_bh_enable_ip __local_bh_disable_ip eth_type_trans "
            "enqueue_to_backlog get_rps_cpu deliver_skb deliver_ptype_list_skb __skb_vlan_untag "
            "skb_vlan_untag is_skb_forwardable skb_scrub_packet run_ksoftirqd raise_softirq "
            "__raise_softirq_irqoff raise_softirq_irqoff irq_exit_rcu "
            "skb_defer_rx_timestamp sk_filter_trim_cap net_rps_action_and_irq_enable"
        ),
        _words(
            "netif_rx __netif_rx __netif_receive_skb netif_receive_skb ____dev_forward_skb __dev_forward_skb "
            "dev_forward_skb napi_ __napi_ busy_poll flush_backlog rps_ tasklet_"
        ),
    ),
    KernelGroup(
        "IP and above",
        # a route is looked up for a user (make_kuid), and counted (percpu_counter_add_batch of dst_alloc)
        _words("nf_hook_slow icmp_send arp_rcv make_kuid map_id_range_down percpu_counter_add_batch"),
        _words(
            "ip_ ip6_ ipv4_ ipv6_ udp_ udp4_ udp6_ udpv6_ __udp tcp_ __tcp inet_ __inet fib_ fib6_ icmp_ "
            "icmpv6_ nf_ nft_ ipt_ neigh_ __neigh raw_local_ rt_ dst_"
        ),
    ),
    KernelGroup(
        "XDP and BPF",
        _words("dev_map_enqueue do_xdp_generic ___bpf_prog_run"),
        _words(
            "bpf_ __bpf_ xdp_ __xdp_ dev_map_ dev_flush cpu_map_ htab_ array_map_ __htab trie_ bq_ cls_bpf"
        ),
    ),
    KernelGroup(
        "locks and RCU",
        _words(
            "__rcu_read_lock __rcu_read_unlock __refcount_warn refcount_warn_saturate call_rcu "
            "do_nocb_deferred_wakeup"
        ),
        _words(
            "_raw_spin_ __raw_spin_ _raw_read_ _raw_write_ queued_spin_ native_queued_spin_ queued_read_ "
            "queued_write_ mutex_ __mutex_ rcu_ __rcu_ rwsem_ down_ up_ __lock_ lock_ local_lock preempt_ "
            "__preempt_ __pv_queued_spin_ pv_queued_spin_"
        ),
    ),
    KernelGroup(
        "clock reads",
        _words("read_tsc ktime_get native_sched_clock sched_clock sched_clock_cpu read_hpet"),
        _words("ktime_ kvm_clock pvclock_ arch_counter_ hv_read_tsc read_hv_"),
    ),
    KernelGroup(
        INTERRUPTS,
        _words(
            "common_interrupt handle_edge_irq handle_fasteoi_irq __common_interrupt irq_enter_rcu "
            "error_entry error_return exc_page_fault restore_regs_and_return_to_kernel "
            "clockevents_program_event"
        ),
        _words(
            "asm_ sysvec_ __sysvec_ hrtimer_ __hrtimer_ tick_ timer_ run_timer_ update_process_times "
            "scheduler_tick sched_tick perf_ __perf_ native_apic_ x2apic_ apic_ lapic_ irqtime_ irqentry_ "
            "native_write_msr el1_interrupt el1h_64_irq gic_"
        ),
    ),
    KernelGroup(
        "scheduler",
        _words("schedule __schedule try_to_wake_up finish_task_switch context_switch __switch_to"),
        _words(
            "sched_ __sched_ schedule_ pick_ __pick_ enqueue_task dequeue_task update_curr update_load "
            "__update_load update_rq wake_up_ __wake_up ttwu_ select_task set_next_ put_prev_ cpuacct_ psi_ "
            "dequeue_entit enqueue_entit place_entity __switch_to"
        ),
    ),
    KernelGroup(
        IDLE,
        _words(
            "do_idle default_idle pv_native_safe_halt acpi_safe_halt intel_idle mwait_idle "
            "haltpoll_enter_idle"
        ),
        _words("cpuidle_ default_idle native_safe_halt acpi_idle intel_idle poll_idle arch_cpu_idle"),
    ),
)
"""Every group; see `kernel_group`."""

SOFTIRQ: Final = frozenset(
    {"handle_softirqs", "__do_softirq", "napi_threaded_poll", "napi_threaded_poll_loop"}
)
"""Inside of these packets are worked on, whoever was running before."""
INTERRUPT: Final = (
    "asm_sysvec_",
    "asm_common_interrupt",
    "sysvec_",
    "common_interrupt",
    "el1h_64_irq",
    "el1_interrupt",
)
"""Inside of functions that begin so an interrupt is served."""
ENTRIES: Final = ("entry_SYSCALL", "do_syscall", "asm_exc_", "el0")
"""Functions that begin so came from user space."""

_SUFFIX: Final = re.compile(r"\.(?:constprop|isra|part|cold|llvm|lto_priv)(?:\.\d+)*$")
_BY_NAME: Final = {name: group.name for group in GROUPS for name in group.names}
_BY_PREFIX: Final = sorted(
    ((prefix, group.name) for group in GROUPS for prefix in group.prefixes), key=lambda pair: -len(pair[0])
)


def function(symbol: str) -> str:
    """The function of a symbol: compilers add ``.isra.0`` and the like to what they made of it."""
    while (shorter := _SUFFIX.sub("", symbol)) != symbol:
        symbol = shorter
    return symbol


def kernel_group(symbol: str) -> str:
    """Group of a kernel function; `OTHER` for one that no group names."""
    name = function(symbol)
    if name in _BY_NAME:
        return _BY_NAME[name]
    return next((group for prefix, group in _BY_PREFIX if name.startswith(prefix)), OTHER)
