"""What scripts catch when a run fails; of these only a NaN is ever raised here, and by scripts themselves."""


class ApplianceClientException(Exception):
    """A failure of a run."""


class ApplianceCompilationError(ApplianceClientException):
    """The compile failed."""


class ApplianceCorruptionError(ApplianceClientException):
    """The state of the run is not to be trusted."""


class ApplianceCsctlError(ApplianceClientException):
    """The cluster's command failed."""


class ApplianceDeadlockError(ApplianceClientException):
    """The system waits for itself."""


class ApplianceDropModeComplete(ApplianceClientException):
    """All was dropped that was to be dropped."""


class ApplianceForceCollectDebug(ApplianceClientException):
    """Somebody asked for a collection of debug files."""


class ApplianceHealthPollException(ApplianceCorruptionError):
    """The cluster does not answer for its health."""


class ApplianceNanError(ApplianceClientException):
    """A NaN or an infinity where a number was wanted."""


class ApplianceRequestCancelled(ApplianceClientException):
    """A request was taken back."""


class ApplianceResourceExhausted(ApplianceClientException):
    """There is no room left."""


class ApplianceRuntimeJobTimeoutError(ApplianceClientException):
    """The job had no time left."""


class ApplianceRuntimeServerError(ApplianceClientException):
    """The server failed."""


class ApplianceServiceInterrupted(ApplianceClientException):
    """The service went away."""


class ApplianceStallError(ApplianceClientException):
    """The run does not get on."""


class ApplianceTensorDropped(ApplianceClientException):
    """A tensor was dropped, and cannot be fetched."""


class ApplianceUnknownError(ApplianceClientException):
    """A failure without a name."""


class ApplianceUserVenvClusterVolumeError(ApplianceClientException):
    """The user's environment cannot be mounted."""


class ApplianceVersionError(ApplianceClientException):
    """Client and server are of different releases."""


class ClusterJobCancelledByCsctl(ApplianceClientException):
    """Somebody cancelled the job."""


class ClusterJobInitError(ApplianceClientException):
    """The job did not begin."""


class ClusterJobScheduleError(ApplianceClientException):
    """The job could not be placed."""
