"""Tests of kafkalite.pipelines.feeders."""
