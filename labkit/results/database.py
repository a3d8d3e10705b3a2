"""The file below the store: connections, transactions, schema version. SQLite, durable at each commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from labkit.errors import LabError, ResultIncompatibleError, WorkloadError
from labkit.results.schema import STORE_VERSION, Base, VersionRow

BUSY_TIMEOUT_S: Final = 30
ELSEWHERE: Final = "name another place with LABKIT_DB=FILE or store=FILE"
SETTLE_ATTEMPTS: Final = 5


class Database:
    """One store's address; nothing is opened, made or written before the first call.

    Parameters
    ----------
    address : str or Path
        A file, or an SQLAlchemy address.

    Raises
    ------
    WorkloadError
        An address that cannot keep results.
    """

    def __init__(self, address: str | Path) -> None:
        text = str(address)
        self.place = text
        try:
            url = make_url(text if "://" in text else f"sqlite:///{text}")
            self._engine = create_engine(
                url, poolclass=NullPool, json_serializer=_dump, json_deserializer=msgspec.json.decode
            )
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            raise WorkloadError(f"results store {text!r}: not an address ({error}); {ELSEWHERE}") from error
        self.file: Path | None = None
        if url.get_backend_name() == "sqlite":
            if url.database in {None, "", ":memory:"}:
                raise WorkloadError(f"results store {text!r}: memory keeps nothing; {ELSEWHERE}")
            self.file = Path(str(url.database))
            self.place = str(self.file)
            _make_durable(self._engine)

    @property
    def exists(self) -> bool:
        """False when the file is not there yet, so that reading makes none.

        Raises
        ------
        WorkloadError
            What is there is a folder or a device: SQLite would write its journal beside it.
        """
        if self.file is None or not self.file.exists():
            return self.file is None
        if not self.file.is_file():
            raise WorkloadError(f"results store {self.place} is no file; {ELSEWHERE}")
        return True

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that takes no write lock; refuses a store of a newer schema."""
        with self._explained("read"), Session(self._engine.execution_options(read_only=True)) as session:
            if not self._check_version(session.connection()):
                raise WorkloadError(f"{self.place}: no results yet; run a sweep first")
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a session that commits durably at its end, or changes nothing when it raises."""
        with self._explained("written"), Session(self._engine) as session, session.begin():
            yield session

    def prepare(self) -> None:
        """Make folder, file and tables when they are missing; a newer store stays untouched."""
        if self.file is not None:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LabError(
                    f"results store: cannot make the folder {self.file.parent}; {ELSEWHERE}",
                    errno=error.errno,
                ) from error
        with self._explained("written"):
            if self.exists:
                with self._engine.execution_options(read_only=True).connect() as connection:
                    if self._check_version(connection):
                        return
            self._make_tables()

    def _make_tables(self) -> None:
        if self.file is not None:
            self._write_ahead()
        with self._engine.begin() as connection:
            # another process may have been here first: the write lock is held, so look again
            if not self._check_version(connection):
                Base.metadata.create_all(connection)
                connection.execute(insert(VersionRow).values(version=STORE_VERSION))

    def _write_ahead(self) -> None:
        """Switch the file to write-ahead logging, which it then keeps.

        SQLite answers "locked" at once, without waiting, when two processes switch at the same
        time (sqlite.org/wal.html, section 3); an empty transaction waits for the other one.
        """
        for attempt in range(SETTLE_ATTEMPTS):
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL").close()
            except sqlite3.OperationalError:
                if attempt == SETTLE_ATTEMPTS - 1:
                    raise
            else:
                return
            finally:
                connection.close()
            with self._engine.begin():
                pass

    def _check_version(self, connection: Connection) -> bool:
        """Tell whether the tables are there; raises when they are not this schema's."""
        tables = set(inspect(connection).get_table_names())
        if not tables:
            return False
        version = None
        if VersionRow.__tablename__ in tables:
            version = connection.execute(select(VersionRow.version)).scalar()
        if version is None:
            raise ResultIncompatibleError(f"{self.place} is a database of something else; {ELSEWHERE}")
        if version > STORE_VERSION:
            raise ResultIncompatibleError(
                f"{self.place} has schema {version}; this labkit writes {STORE_VERSION}: "
                f"nothing was changed; use the newer labkit, or {ELSEWHERE}"
            )
        return True

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except msgspec.DecodeError as odd:
            raise ResultIncompatibleError(f"{self.place} holds damaged JSON ({odd}); {ELSEWHERE}") from odd
        except IntegrityError:
            raise  # the caller's rows contradict the tables, which only the caller can explain
        except (DBAPIError, sqlite3.Error) as error:  # SQLAlchemy leaves errors of a raw connection bare
            said = error.orig if isinstance(error, DBAPIError) else error
            if "not a database" in str(said):
                raise ResultIncompatibleError(f"{self.place} is no SQLite database; {ELSEWHERE}") from error
            raise LabError(
                f"results store {self.place} could not be {verb}: {said}; "
                f"free the disk, the rights or the lock, or {ELSEWHERE}"
            ) from error


def _dump(value: Any) -> str:
    # unlike json.dumps this writes null for NaN, which JSON has no word for
    return msgspec.json.encode(value).decode()


def _make_durable(engine: Engine) -> None:
    """Commit through to the disk, wait for other writers, and lock at the start of a transaction."""

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        # the driver's own BEGIN comes too late and as a read lock: a later upgrade cannot wait
        connection.isolation_level = None
        for pragma in (f"busy_timeout={BUSY_TIMEOUT_S * 1000}", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
