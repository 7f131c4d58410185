"""The one kind of error that is meant for the person at the keyboard."""


class UserError(Exception):
    """Something that the user can put right. The message says what is wrong and what to do."""
