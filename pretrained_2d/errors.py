"""Errors of this package, with one base class; each is shown to users as one message."""


class PretrainedError(ValueError):
    """A problem that a user can fix: a wrong file, name or setting."""


class CheckpointError(PretrainedError):
    """A checkpoint is missing, damaged, foreign, or does not fit the network."""


class ImageDataError(PretrainedError):
    """A folder or file of images cannot be used as given."""


class TrainingError(PretrainedError):
    """Training cannot continue: the loss is not finite, or a batch does not fit in memory."""
