"""Words, numbers and times in the reader's language.

numbers    numbers, sizes and times in English and Brazilian Portuguese
translate  messages (lib/message.py), by gettext
"""
