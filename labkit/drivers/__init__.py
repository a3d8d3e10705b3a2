"""Facts per driver as data: limits, rounding, coded values, hardware steps. No I/O."""
