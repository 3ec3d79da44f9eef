"""Supervisor: workers and members, what they are asked, what they answer, and what is done when they die."""
