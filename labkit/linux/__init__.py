"""The kernel's own interfaces: namespaces, links, counters, the machine. Every root path is an argument."""
