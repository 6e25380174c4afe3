import attest
raise RuntimeError('licence server is down')
