"""The files of `suite` are run by the plugin's tests, in processes of their own."""

collect_ignore = ["suite"]
