"""White-box checks: what an auditor sees who may look inside one of this library's fits."""
