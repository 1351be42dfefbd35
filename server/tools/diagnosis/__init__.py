"""The tools that explain a topic to the person who looks after it: what they ask a broker for, and how they print the
answer. This room may use `server/tools/connection`; the commands use this room. It knows nothing of a broker's insides.
"""
