"""Tool results that fit."""
