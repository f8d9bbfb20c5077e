"""Words, numbers and times in the reader's language.

numbers    numbers, sizes and times in English and Brazilian Portuguese
phrases    sentences with values in them, translated
sentences  fixed sentences of other modules, translated
"""
