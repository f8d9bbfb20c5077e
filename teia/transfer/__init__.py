"""Import, export, and integrity checks.

import_data       `teia import`
import_warc       WARC files
warc_captures     WARC files taken apart into captures
import_lists      lists of URLs, fetch logs
import_hosts      lists of host names, DNS zones
import_hits       access logs
export            `teia export`
read_all          read collections without writing
politeness_audit  `teia audit politeness`
audits            run audits, keep their results
links_audit       `teia audit links`
repair_archive    `teia audit archive --repair`
disk_use          disk use of a collection
"""
