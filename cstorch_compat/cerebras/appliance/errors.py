"""Exceptions of the cluster client, which scripts catch. The emulation raises none of them; a script may raise them."""


class ApplianceClientException(Exception):
    """The base class of all errors of a run on the cluster."""


class ApplianceCompilationError(ApplianceClientException):
    """Compilation failed."""


class ApplianceCorruptionError(ApplianceClientException):
    """The state of the run is corrupt."""


class ApplianceCsctlError(ApplianceClientException):
    """The cluster's command-line tool `csctl` failed."""


class ApplianceDeadlockError(ApplianceClientException):
    """The system deadlocked."""


class ApplianceDropModeComplete(ApplianceClientException):
    """A run in drop mode has dropped everything it had to drop."""


class ApplianceForceCollectDebug(ApplianceClientException):
    """A collection of debug files was requested."""


class ApplianceHealthPollException(ApplianceCorruptionError):
    """The cluster does not respond to health checks."""


class ApplianceNanError(ApplianceClientException):
    """A value is NaN or infinite."""


class ApplianceRequestCancelled(ApplianceClientException):
    """A request was cancelled."""


class ApplianceResourceExhausted(ApplianceClientException):
    """A resource, such as memory, is exhausted."""


class ApplianceRuntimeJobTimeoutError(ApplianceClientException):
    """The job exceeded its time limit."""


class ApplianceRuntimeServerError(ApplianceClientException):
    """The runtime server failed."""


class ApplianceServiceInterrupted(ApplianceClientException):
    """A service of the cluster was interrupted."""


class ApplianceStallError(ApplianceClientException):
    """The run makes no progress."""


class ApplianceTensorDropped(ApplianceClientException):
    """A tensor was dropped and cannot be fetched."""


class ApplianceUnknownError(ApplianceClientException):
    """An error of unknown cause."""


class ApplianceUserVenvClusterVolumeError(ApplianceClientException):
    """The user's virtual environment cannot be mounted on the cluster."""


class ApplianceVersionError(ApplianceClientException):
    """The client and the server have different releases."""


class ClusterJobCancelledByCsctl(ApplianceClientException):
    """The job was cancelled with `csctl`."""


class ClusterJobInitError(ApplianceClientException):
    """The job could not be initialized."""


class ClusterJobScheduleError(ApplianceClientException):
    """The job could not be scheduled."""
