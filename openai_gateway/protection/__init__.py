"""Who may ask what, how much and how slowly: everything between a socket and the routes.

``protect`` (`stack`) wraps the application. From the outside in: `request_ids`, `access_log`, CORS, `same_origin`,
`stalled_reader`, `body_deadline`, `authentication`, `allowances`; `metered` sits before the upstream and counts tokens.
Each middleware is a plain ASGI class, so that streams flow and a client's leaving is seen.
"""
