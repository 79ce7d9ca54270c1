"""What a policy may answer."""

from restow._policy import CheckpointPolicy, decide

__all__ = ["CheckpointPolicy", "decide"]
