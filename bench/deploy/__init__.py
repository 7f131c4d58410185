# SPDX-License-Identifier: MIT
"""The four-host benchmark from the controller: prepare the hosts, sweep, collect, tidy up.

What happens on the hosts stands in deploy/ (an Ansible playbook). Here is what goes on around it.
"""
