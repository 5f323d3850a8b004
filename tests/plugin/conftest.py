"""The suite is for the plugin to run, not for this session."""

collect_ignore = ["suite"]
