"""Dashboards and their pictures, made of one table of panels; the alert rules stand beside them."""
