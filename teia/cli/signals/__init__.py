"""`teia signals`.

commands    the group of commands
import_log  `teia signals import-log`
squid       `teia signals squid-helper`, `status`
"""
