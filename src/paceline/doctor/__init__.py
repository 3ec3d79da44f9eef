"""Is it sendable, deterministic, dear? Which plan, and why? Asks an env itself, and says so in plain words."""

from paceline.doctor.examine import Diagnosis, examine

__all__ = ["Diagnosis", "examine"]
