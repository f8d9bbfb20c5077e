"""Subscriptions to pages and searches, and the notices they send.

subscriptions  subscriptions as users manage them
notices        changes and search results to notify of
process        the notifier: a process that sends notices
deliver        notices on their way to webhooks
keep_process   start and end that process
"""
