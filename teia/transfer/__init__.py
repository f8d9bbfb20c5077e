"""Import, export, and integrity checks.

import_data       `teia import`
import_warc       WARC files
warc_captures     WARC files taken apart into captures
arc_captures      ARC files read as captures
import_wacz       WACZ files
import_lists      lists of URLs, fetch logs
import_hosts      lists of host names, DNS zones
import_hits       access logs
export            `teia export`
export_wacz       `teia export wacz`
read_all          read collections without writing
politeness_audit  `teia audit politeness`
audits            run audits, keep their results
links_audit       `teia audit links`
manifest_audit    `teia audit manifest`
frontier_audit    `teia audit frontier`; damaged pages of the frontier
retention         `teia retain`
removal           `teia remove`
repair_archive    `teia audit archive --repair`
disk_use          disk use of a collection
doctor            `teia doctor`: checks of the machine and of a collection's seeds
"""
