"""The command line: one module per command, wired in `main`.

A command reads its flags, calls one thing of the layers below and prints the result; it decides nothing itself. What
is printed where is `output`, how a command ends (exit status, one line for a person) is `exits`. Nothing imports this
package but `python -m teia` and the tests.
"""
