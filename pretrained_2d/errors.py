"""What can go wrong below the application: one base class, shown to users as one message."""


class PretrainedError(ValueError):
    """A problem a user can cause and mend: wrong file, wrong name, wrong setting."""


class CheckpointError(PretrainedError):
    """A checkpoint is missing, damaged, foreign, or does not fit the network."""


class ImageDataError(PretrainedError):
    """A folder or file of images cannot be used as given."""


class TrainingError(PretrainedError):
    """Training cannot go on: the loss is not finite, or a batch does not fit in memory."""
