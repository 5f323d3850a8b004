"""What all tests share."""

import os

# Before JAX starts its backend: two devices are the least that shows what sharding does.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
