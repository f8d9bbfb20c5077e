"""Structures without any knowledge of the web: they import the standard library and libraries of data, never teia.

    child_process   start, follow and end child processes; waits before they are started again
    closing         objects that a `with` block closes
    copy_fields     a record made from another one
    csvtext         comma-separated values without formulas
    difference      the common parts of two sequences, in bounded time
    entry_points    functions that other processes run
    free_memory     free memory that the allocator keeps, given back to the system
    language_names  names of languages in English and Portuguese
    scratch         temporary folders, removed also after their process was killed
    simhash         64-bit fingerprints of texts that are nearly alike, their distance; a hash that ignores numbers
    launch          program that gives another one its limits, and its end with its parent
    linearregex     regular expressions that no text makes slow
    message         sentences for people: a code with values, translated where they are read
    undecodable     errors of bytes that a decoder cannot read
    progress        progress of long work, counted where it is done
    topic           topic classifier, learnt from words and examples

A module that needs the word "URL" does not belong here.
"""
