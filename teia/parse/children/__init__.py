"""Killable child processes.

pool    the children, their queue and limits
spawn   start the zygote
zygote  the process that children are forked from
child   the loop of a child
"""
