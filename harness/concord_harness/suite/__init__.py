"""How test suites run: a warm process imports torch and the plugin, a unit process collects a file, slots fork cases.

zygote (imports) -> unit (collects) -> slot (watches) -> case (runs one test or a group). Each of the first three is a
subreaper, so that whatever a test leaves behind comes back to the process that can say which test it was. Units and
slots talk to concord over a socket of their own: when one of them dies, concord knows which.
"""
