"""Make this package's modules see another system; Python runs this file at its start if its folder is on the path.

LAZYWAFER_TEST_SYSTEM is "win32" or "darwin". Modules of lazytensor, wse_sim and cstorch_compat import versions of `os`,
`sys`, `signal` and others without what the system does not have. Python's library and other packages see the real
system. For Windows, no file that is open can be renamed or removed. The functions of the system that machine code calls
are made from Linux's.
"""

import builtins
import ctypes
import fcntl
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import platform
import re
import sys
import types

PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
SYSTEM = os.environ.get("LAZYWAFER_TEST_SYSTEM", "")

O_BINARY = 1 << 30
MISSING_MODULES = {
    "win32": "fcntl resource pwd grp termios tty pty posix syslog readline _posixshmem _posixsubprocess".split(),
    "darwin": [],
}
MISSING_NAMES = {
    "win32": {
        "os": """pread pwrite preadv pwritev readv writev fork forkpty register_at_fork getuid geteuid getgid getegid
            getgroups chown fchown lchown fchmod chroot sysconf sysconf_names pathconf fpathconf statvfs fstatvfs mkfifo
            mknod nice setsid getsid setpgid getpgid getpgrp killpg wait wait3 wait4 waitid WIFSIGNALED WTERMSIG
            WIFEXITED WEXITSTATUS WNOHANG WUNTRACED sched_getaffinity sched_setaffinity sched_yield uname posix_fadvise
            posix_fallocate posix_spawn posix_spawnp sendfile copy_file_range splice memfd_create eventfd O_NOFOLLOW
            O_CLOEXEC O_DIRECTORY O_NONBLOCK O_SYNC O_DSYNC O_DIRECT O_NOCTTY O_TMPFILE fdatasync sync lockf getloadavg
            openpty ttyname ctermid getxattr setxattr listxattr removexattr fchdir confstr getpriority setpriority
            PRIO_PROCESS getrandom pidfd_open pipe2 setuid setgid""",
        "signal": """SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGXCPU SIGXFSZ SIGALRM SIGVTALRM SIGPROF SIGQUIT SIGSTOP SIGCONT
            SIGTSTP SIGCHLD SIGPIPE SIGBUS SIGTRAP SIGIO SIGSYS SIGTTIN SIGTTOU SIGURG SIGWINCH pthread_kill alarm pause
            pthread_sigmask sigpending sigwait sigwaitinfo sigtimedwait setitimer getitimer siginterrupt ITIMER_REAL
            SIG_BLOCK SIG_UNBLOCK SIG_SETMASK""",
        "time": """clock_gettime clock_gettime_ns clock_settime clock_getres CLOCK_MONOTONIC CLOCK_REALTIME tzset
            pthread_getcpuclockid""",
        "faulthandler": "register unregister",
        "socket": "AF_UNIX socketpair_unix SO_REUSEPORT",
        "select": "poll epoll kqueue",
        "mmap": "MAP_SHARED MAP_PRIVATE MAP_ANONYMOUS MAP_ANON PROT_READ PROT_WRITE MADV_DONTNEED",
    },
    "darwin": {
        "os": """sched_getaffinity sched_setaffinity memfd_create posix_fadvise posix_fallocate copy_file_range splice
            eventfd O_DIRECT O_TMPFILE fdatasync getxattr setxattr listxattr removexattr getrandom pidfd_open preadv2
            sched_getparam""",
        "signal": "SIGRTMIN SIGRTMAX SIGPWR SIGPOLL SIGSTKFLT sigwaitinfo sigtimedwait",
        "time": "pthread_getcpuclockid CLOCK_BOOTTIME",
        "select": "epoll",
    },
}
VALUES = {
    "win32": {
        "os": {"name": "nt", "supports_dir_fd": set(), "supports_follow_symlinks": set(), "O_BINARY": O_BINARY},
        "sys": {"platform": "win32"},
        "platform": {"system": lambda: "Windows", "machine": lambda: "AMD64"},
        "multiprocessing": {"get_all_start_methods": lambda: ["spawn"]},
    },
    "darwin": {"sys": {"platform": "darwin"}, "platform": {"system": lambda: "Darwin"}},
}


class _Changed(types.ModuleType):
    """A module that passes all but some attributes on to the real one."""

    def __init__(self, real, missing, values):
        for name, value in {"_real": real, "_missing": set(missing), "_values": values}.items():
            object.__setattr__(self, name, value)

    def __getattribute__(self, name):
        known = object.__getattribute__(self, "__dict__")
        if name in known["_missing"]:
            raise AttributeError(f"module {known['_real'].__name__!r} has no attribute {name!r}")
        return known["_values"][name] if name in known["_values"] else getattr(known["_real"], name)

    def __setattr__(self, name, value):
        setattr(object.__getattribute__(self, "__dict__")["_real"], name, value)

    def __delattr__(self, name):
        delattr(object.__getattribute__(self, "__dict__")["_real"], name)

    def __dir__(self):
        known = object.__getattribute__(self, "__dict__")
        return [name for name in dir(known["_real"]) if name not in known["_missing"]]


def _changed(real):
    name = real.__name__
    missing = MISSING_NAMES[SYSTEM].get(name, "").split()
    values = dict(VALUES[SYSTEM].get(name, {}))
    if name == "multiprocessing" and SYSTEM == "win32":
        values["get_context"] = _windows_context
    if name == "ctypes" and SYSTEM == "win32":
        values["CDLL"] = _windows_library
    if name == "os" and SYSTEM == "win32":
        values |= {"kill": _windows_kill, "open": _windows_open, "fsync": _windows_fsync}
    return _Changed(real, missing, values) if missing or values else real


def _windows_context(method=None):
    if method not in (None, "spawn"):
        raise ValueError(f"cannot find context for {method!r}")
    return multiprocessing.get_context("spawn")


def _windows_library(name, *args, **kwargs):
    if name is None:
        raise TypeError("bad argument type for built-in operation")
    return ctypes.CDLL(name, *args, **kwargs)


def _windows_kill(process, number):
    # 0 is CTRL_C_EVENT on Windows: it interrupts processes instead of testing whether one exists.
    if number == 0:
        raise AssertionError("os.kill(process, 0) interrupts the process on Windows")
    os.kill(process, number)


def _windows_open(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    if not flags & O_BINARY and os.fspath(path) != os.devnull:
        raise AssertionError(f"{path} is opened in text mode, which changes line ends on Windows")
    return os.open(path, flags & ~O_BINARY, mode)


def _windows_fsync(descriptor):
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "Bad file descriptor")
    os.fsync(descriptor)


def _lock_region(descriptor, mode, size):
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, size, os.lseek(descriptor, 0, os.SEEK_CUR))
    except OSError:
        raise PermissionError(13, "Permission denied") from None


def _import(name, names=None, local_names=None, wanted=(), level=0):
    root = name.partition(".")[0]
    if level == 0 and root in MISSING_MODULES[SYSTEM]:
        raise ModuleNotFoundError(f"No module named {root!r}", name=root)
    if name == "msvcrt" and SYSTEM == "win32":
        return types.SimpleNamespace(locking=_lock_region, LK_NBLCK=2)
    real = builtins.__import__(name, names, local_names, wanted, level)
    if level == 0 and root in sys.stdlib_module_names:
        return _changed(real)
    return real


class _Loader(importlib.machinery.SourceFileLoader):
    """A loader of modules whose `import` gives the changed modules."""

    def exec_module(self, module):
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        if name == "lazytensor.llvm.thread_instructions":
            _add_symbols()
        return spec


def _refuse_open_files(event, args):
    """Raise PermissionError if a file that is open is renamed or removed, as Windows does."""
    if event not in ("os.rename", "os.remove"):
        return
    paths = {
        os.path.realpath(os.fsdecode(p)) for p in args[: 2 if event == "os.rename" else 1] if not isinstance(p, int)
    }
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target in paths:
            raise PermissionError(13, "The process cannot access the file because it is being used", target)


_SYMBOLS = {
    "win32": """
        declare i64 @syscall(i64, ...)
        declare i32 @clock_gettime(i32, ptr)
        define i32 @test_WaitOnAddress(ptr %at, ptr %expected, i64 %size, i32 %limit) {
          %value = load i64, ptr %expected
          %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %at, i64 128, i64 %value, ptr null)
          ret i32 1
        }
        define void @test_WakeByAddressAll(ptr %at) {
          %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %at, i64 129, i64 1000000)
          ret void
        }
        define i32 @test_QueryPerformanceCounter(ptr %to) {
          %time = alloca [2 x i64]
          %done = call i32 @clock_gettime(i32 1, ptr %time)
          %seconds = load i64, ptr %time
          %second = getelementptr i64, ptr %time, i64 1
          %rest = load i64, ptr %second
          %whole = mul i64 %seconds, 10000000
          %part = sdiv i64 %rest, 100
          %ticks = add i64 %whole, %part
          store i64 %ticks, ptr %to
          ret i32 1
        }
        declare i32 @sched_yield()
        define i32 @test_SwitchToThread() {
          %done = call i32 @sched_yield()
          ret i32 %done
        }
        define i32 @test_QueryPerformanceFrequency(ptr %to) {
          store i64 10000000, ptr %to
          ret i32 1
        }""",
    "darwin": """
        declare i64 @syscall(i64, ...)
        define i32 @test___ulock_wait(i32 %kind, ptr %at, i64 %value, i32 %limit) {
          %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %at, i64 128, i64 %value, ptr null)
          ret i32 0
        }
        define i32 @test___ulock_wake(i32 %kind, ptr %at, i64 %value) {
          %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %at, i64 129, i64 1000000)
          ret i32 0
        }""",
}
_engines = []


def _add_symbols():
    """Add the system's functions that machine code calls, as machine code that calls Linux."""
    if _engines:
        return
    # Imported here because every process runs this file.
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = _SYMBOLS[SYSTEM].replace("FUTEX", {"x86_64": "202"}.get(platform.machine(), "98"))
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    _engines.append(engine)
    for name in re.findall(r"@test_(\w+)", text):
        llvm.add_symbol(name, engine.get_function_address(f"test_{name}"))


if SYSTEM:
    sys.meta_path.insert(0, _Finder())
    if SYSTEM == "win32":
        sys.addaudithook(_refuse_open_files)
