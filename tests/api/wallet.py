"""A wallet for tests: Keccak-256 and secp256k1 in plain Python, slow and simple, and written without a look at ours."""
import hashlib
import hmac

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
     0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8)


def keccak256(data):
    lanes = [[0] * 5 for _ in range(5)]
    rate = 136
    padded = bytearray(data) + b"\x01" + bytes(-(len(data) + 1) % rate)
    padded[-1] |= 0x80
    for start in range(0, len(padded), rate):
        block = padded[start:start + rate]
        for i in range(rate // 8):
            lanes[i % 5][i // 5] ^= int.from_bytes(block[8 * i:8 * i + 8], "little")
        register = 1
        for _ in range(24):
            columns = [lanes[x][0] ^ lanes[x][1] ^ lanes[x][2] ^ lanes[x][3] ^ lanes[x][4] for x in range(5)]
            for x in range(5):
                turned = columns[(x + 1) % 5]
                mix = columns[(x + 4) % 5] ^ ((turned << 1 | turned >> 63) & (2**64 - 1))
                for y in range(5):
                    lanes[x][y] ^= mix
            x, y, current = 1, 0, lanes[1][0]
            for t in range(24):
                x, y = y, (2 * x + 3 * y) % 5
                shift = (t + 1) * (t + 2) // 2 % 64
                current, lanes[x][y] = lanes[x][y], (current << shift | current >> (64 - shift)) & (2**64 - 1)
            for row in range(5):
                line = [lanes[x][row] for x in range(5)]
                for x in range(5):
                    lanes[x][row] = line[x] ^ (~line[(x + 1) % 5] & line[(x + 2) % 5])
            for j in range(7):
                register = (register << 1 ^ (register >> 7) * 0x71) % 256
                if register & 2:
                    lanes[0][0] ^= 1 << ((1 << j) - 1)
    return b"".join(lanes[i % 5][i // 5].to_bytes(8, "little") for i in range(4))


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def times(k, point):
    result = None
    while k:
        if k & 1:
            result = add(result, point)
        point = add(point, point)
        k >>= 1
    return result


class Wallet:
    def __init__(self, seed):
        self.key = int.from_bytes(hashlib.sha256(str(seed).encode()).digest(), "big") % N
        point = times(self.key, G)
        self.raw = keccak256(point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big"))[12:].hex()
        mixed = keccak256(self.raw.encode()).hex()
        self.address = "0x" + "".join(c.upper() if int(mixed[i], 16) > 7 else c for i, c in enumerate(self.raw))
        self.owner = "eth:0x" + self.raw

    def sign(self, message):
        """EIP-191, as personal_sign does."""
        data = message.encode()
        digest = keccak256(b"\x19Ethereum Signed Message:\n" + str(len(data)).encode() + data)
        z, secret, count = int.from_bytes(digest, "big"), self.key.to_bytes(32, "big"), 0
        while True:
            nonce = int.from_bytes(hmac.digest(secret, digest + bytes([count]), "sha256"), "big") % N
            point = times(nonce, G)
            r = point[0] % N
            s = pow(nonce, -1, N) * (z + r * self.key) % N
            if r and s and point[0] < N:
                break
            count += 1
        v = 27 + (point[1] & 1)
        if s > N // 2:
            s, v = N - s, 55 - v
        return "0x" + r.to_bytes(32, "big").hex() + s.to_bytes(32, "big").hex() + bytes([v]).hex()


assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
