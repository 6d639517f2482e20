CONFIRMED=()
def confirmed(x): return []
