"""What the chart's autoscaling would do: `python -m deploy.autoscaling` simulates it from the rendered settings."""
