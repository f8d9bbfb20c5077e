"""Commands about the data folder.

export   `teia export`
import_  `teia import`
audit    `teia audit`
rebuild  `teia rebuild`
remove   `teia remove`
retain   `teia retain`
manifest `teia manifest`
"""
