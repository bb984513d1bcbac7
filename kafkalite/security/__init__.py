"""Who a client is, what it may do and how much: SASL, principals, ACLs and quotas, without sockets and files."""
