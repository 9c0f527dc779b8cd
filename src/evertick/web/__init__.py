"""Where the page's files are: built from `web/`, shipped in the wheel, served by the API."""

from evertick.web.site import HOW_TO_BUILD, File, Site, site

__all__ = ["HOW_TO_BUILD", "File", "Site", "site"]
