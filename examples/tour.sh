#!/bin/bash
# A tour of Stockade's API, with clients that anybody has: curl, ethers, a browser, OpenSSH, Python's websockets.
#
#   examples/tour.sh
#
# It starts a daemon of its own in a temporary folder, and removes both at the end. Root is needed, for disks. It needs curl,
# node and npm, chromium, python3-websockets and openssh-client; ethers is fetched by npm, into that folder.
#
#   STOCKADE        the program (default: build/src/cli/stockade, else the one in PATH)
#   TOUR_STATE      a folder for the daemon, in place of a temporary one; it is left there
#   TOUR_PACKAGES   a folder with node_modules/ethers, in place of a fresh one
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
stockade=${STOCKADE:-$here/../build/src/cli/stockade}
[ -x "$stockade" ] || stockade=$(command -v stockade) || { echo "tour: there is no 'stockade': run 'make build', or set STOCKADE" >&2; exit 1; }
stockade=$(realpath "$stockade")

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
say() { printf '  %s\n' "$*"; }
fail() {
        printf 'tour: FAILED: %s\n' "$*" >&2
        [ "$BASHPID" = $$ ] || kill -TERM $$ # also from within $(…)
        exit 1
}

[ "$(id -u)" = 0 ] || fail "sandboxes with disks need root"
for program in curl node npm chromium ssh ssh-keygen python3; do
        command -v "$program" >/dev/null || fail "'$program' is missing"
done
/usr/bin/python3 -c 'import websockets' 2>/dev/null || fail "python3-websockets is missing"

# --- a place of our own, and what is left behind: nothing

work=$(mktemp -d "${TMPDIR:-/tmp}/stockade-tour.XXXXXX")
state=$(realpath -m "${TOUR_STATE:-$work/state}")
packages=${TOUR_PACKAGES:+$(realpath "$TOUR_PACKAGES")}
socket=$state/run/operator.sock
watcher=
finish() {
        status=$?
        trap - EXIT INT TERM
        [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
        if [ -S "$socket" ]; then
                "$stockade" down --stop-sandboxes --socket "$socket" >"$work/down" 2>&1 || { cat "$work/down" >&2; status=1; }
        fi
        if [ "$status" != 0 ]; then
                [ -f "$state/log" ] && tail -n 20 "$state/log" >&2
                echo "tour: it did not come to its end (status $status)" >&2
        fi
        rm -rf "$work"
        exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p -m 700 "$state"
cd "$work"
: >bearer # the header with our token; only we can read what is in this folder

# --- small tools

# field NAME: of the JSON object on standard input
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
# Everybody can read the arguments of a program. So tokens and secrets go through files and pipes; printf is part of bash.
# json KEY VALUE …: an object of strings
json() {
        printf '%s\0' "$@" | python3 -c '
import json, sys
words = sys.stdin.read().split("\0")
print(json.dumps(dict(zip(words[:-1:2], words[1::2]))))'
}
# api METHOD PATH [CURL OPTIONS…]: with our token; what is refused ends the tour
api() {
        local method=$1 path=$2 code
        shift 2
        code=$(curl -sS -o answer -w '%{http_code}' -X "$method" -H @bearer "$@" "$url$path")
        [ "$code" -lt 400 ] || fail "$method $path: $code $(cat answer)"
        cat answer
}
# post PATH KEY VALUE …
post() {
        local path=$1
        shift
        json "$@" | api POST "$path" -H 'Content-Type: application/json' -d @-
}
# until_it COMMAND…: waits for it to succeed, for at most a minute
until_it() {
        local end=$((SECONDS + 60))
        until "$@" >/dev/null 2>&1; do
                [ $SECONDS -lt $end ] || fail "this never succeeded: $*"
                sleep 0.1
        done
}

step "1. A wallet, made by ethers"
if [ -n "$packages" ]; then
        ln -s "$packages/node_modules" node_modules
        cp "$here/tour/package.json" .
else
        cp "$here/tour/package.json" "$here/tour/package-lock.json" .
        npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier >npm.log 2>&1 || fail "npm: $(tail -n 5 npm.log)"
fi
cp "$here/tour/wallet.mjs" .
read -r wallet_key address < <(node wallet.mjs new) || fail "ethers made no wallet"
say "its address is $address"

step "2. stockade up"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ssh_port=$(free_port)
cat >stockade.conf <<CONF
listen = 127.0.0.1:0
wallets = $address
ports_domain = ports.localhost
ssh_listen = 127.0.0.1:$ssh_port
CONF
"$stockade" up --detach --state "$state" --config stockade.conf >up.log 2>&1 || fail "$(cat up.log)"
listen=$("$stockade" health --json --socket "$socket" | python3 -c 'import json, sys; print(json.load(sys.stdin)["api"]["listen"][0])')
url=http://$listen
say "the API is at $url; only this wallet may sign in"
say "health: $(api GET /health)"

step "3. Sign in: a text that names this server (EIP-4361), signed by the wallet"
challenge=$(post /api/auth/challenge address "$address")
field message <<<"$challenge" | sed 's/^/    | /'
signature=$(python3 -c 'import json, sys; sys.stdout.write(json.load(sys.stdin)["message"])' <<<"$challenge" | WALLET_KEY=$wallet_key node wallet.mjs sign)
token=$(post /api/auth/session nonce "$(field nonce <<<"$challenge")" signature "$signature" | field token)
printf 'Authorization: Bearer %s\n' "$token" >bearer
say "signed in as $(api GET /api/auth/whoami | field owner)"
code=$(json nonce "$(field nonce <<<"$challenge")" signature "$signature" |
        curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d @- "$url/api/auth/session")
[ "$code" = 401 ] || fail "the same signature was good twice: $code"
say "the same signature a second time: $code"

step "4. Create a sandbox"
profile='profile: 1
name: tour
extends: medium
secrets: [TOUR_TOKEN]
network: {allow: [{host: api.example.org, secret: TOUR_TOKEN}]}'
id=$(printf '{"name": "tour", "profile_text": %s, "secrets": %s}' \
        "$(printf %s "$profile" | python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))')" \
        "$(json TOUR_TOKEN the-first-value-of-it)" |
        api POST /api/sandboxes -H 'Content-Type: application/json' -d @- | field id)
box=/api/sandboxes/$id
say "it is $id, $(api GET "$box" | field state)"

step "5. exec"
api POST "$box/exec" -H 'Content-Type: application/json' -d '{"command": "id; uname -n; cat /etc/shadow"}' >exec.json
field stdout <exec.json | sed 's/^/    /'
field stderr <exec.json | sed 's/^/    /'
say "exit code $(field exit_code <exec.json)"
say "the same as events, while it runs:"
api POST "$box/exec" -N -H 'Content-Type: application/json' -d '{"command": "echo one; echo two", "stream": true}' >stream.txt
grep -q '^event: exit' stream.txt || fail "the stream has no end: $(cat stream.txt)"
grep -A1 '^event: stdout' stream.txt | sed 's/^/    /'

step "6. A terminal, over a WebSocket"
terminal=$box/live/terminal/sessions
session=$(post "$terminal" command 'PS1="tour\$ " exec sh -i' | field session_id)
ws=ws://$listen$terminal/$session/ws
TOKEN=$token /usr/bin/python3 "$here/tour/terminal.py" "$ws" type 'remember=me; stty size; tty' /dev/pts | sed 's/^/    /'
say "left, and found again as it was:"
TOKEN=$token /usr/bin/python3 "$here/tour/terminal.py" "$ws" type 'echo still-$remember' still-me | tail -n 2 | sed 's/^/    /'

step "7. A tree goes up, and comes back"
mkdir -p tree/assets
cat >tree/index.html <<'HTML'
<!doctype html><title>Dev server</title><h1>loading</h1><script src="assets/app.js"></script>
HTML
cat >tree/assets/app.js <<'JS'
fetch('assets/data.json').then((r) => r.json()).then((d) => {
  document.querySelector('h1').textContent = `${d.words} at ${location.hostname.split('-')[0]}`
})
JS
echo '{"words": "hello from inside"}' >tree/assets/data.json
head -c 300000 /dev/urandom >tree/assets/noise.bin
post "$box/files/folder" path /home/agent/site >/dev/null
tar -C tree -cf - . | api PUT "$box/files/archive?path=/home/agent/site" -T - >/dev/null
mkdir back
api GET "$box/files/archive?path=/home/agent/site" >back.tar
tar -C back -xf back.tar
found=$(dirname "$(find back -name index.html)")
diff -r tree "$found" || fail "it did not come back as it went"
say "$(find tree -type f | wc -l) files, byte for byte the same"
say "a part of one: $(api GET "$box/files?path=/home/agent/site/assets/data.json" -r 2-6)"

step "8. A dev server inside, in a tab of a browser"
api POST "$box/exec" -H 'Content-Type: application/json' \
        -d '{"command": "exec python3 -m http.server 8000 --directory /home/agent/site", "background": true}' >/dev/null
answers() { curl -sS -H @bearer "$url$box/ports" | grep -q '"8000"'; }
until_it answers
say "with the token, under our own name: $(api GET "$box/port/8000/assets/data.json")"
# a tab sends no header: a ticket, good once and for 30 seconds, becomes a cookie for this one port
tab=http://8000-$id.ports.localhost:${listen##*:}
browse() {
        ticket=$(post /api/auth/ticket path "//8000-$id" | field ticket)
        rm -rf browser
        chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-proxy-server --user-data-dir="$work/browser" \
                --virtual-time-budget=10000 --dump-dom "$tab/.stockade/open?ticket=$ticket" >dom.html 2>browser.log
        grep -q '<h1>hello from inside at 8000</h1>' dom.html
}
# a machine that is busy may take longer than that to start a browser
browse || browse || browse || fail "the page is not what it should be: $(cat dom.html) $(tail -n 5 browser.log)"
say "$tab shows: $(grep -o '<h1>.*</h1>' dom.html)"
code=$(curl -sS -o /dev/null -w '%{http_code}' --resolve "8000-$id.ports.localhost:${listen##*:}:127.0.0.1" "$tab/")
[ "$code" = 401 ] || fail "a stranger got in: $code"
say "the same without the cookie: $code"

step "9. ssh"
ssh-keygen -q -t ed25519 -N '' -C tour -f key
post "$box/ssh" public_key "$(cat key.pub)" >/dev/null
ssh_in() {
        ssh -n -F none -p "$ssh_port" -i key -o BatchMode=yes -o ConnectTimeout=60 -o IdentitiesOnly=yes -o LogLevel=ERROR \
                -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=known_hosts "$id@127.0.0.1" "$@"
}
words=$(ssh_in 'echo "by ssh, as $(id -un)"')
[ "$words" = "by ssh, as agent" ] || fail "ssh said '$words'"
say "$words"
json public_key "$(cat key.pub)" | api DELETE "$box/ssh" -H 'Content-Type: application/json' -d @- >/dev/null
! ssh_in true 2>/dev/null || fail "a key that was removed still opens"
say "the key is removed, and opens nothing any more"

step "10. A secret, while it runs"
printf '{"env_json": %s}' "$(json TOUR_TOKEN hush-a-value-that-nobody-sees)" |
        api POST "$box/secrets" -H 'Content-Type: application/json' -d @- >/dev/null
say "names, and never a value: $(api GET "$box/secrets")"
inside=$(post "$box/exec" command 'echo $TOUR_TOKEN' | field stdout)
case $inside in
stockade-secret-*) ;;
*) fail "inside it is '$inside'" ;;
esac
say "inside it is $inside"
say "(the gate puts the value into requests to api.example.org, and nowhere else)"

step "11. Revoke the session"
exec 3< <(TOKEN=$token exec /usr/bin/python3 "$here/tour/terminal.py" "$ws" watch)
watcher=$!
read -r -t 60 words <&3 && [ "$words" = open ] || fail "the terminal did not open"
curl -sSN -D events.head -H @bearer "$url/api/events" >/dev/null 2>&1 &
events=$!
until_it grep -q '^HTTP/1.1 200' events.head
say "a terminal is open, and somebody listens for events"
began=$(date +%s%N)
api DELETE /api/auth/session >/dev/null
read -r -t 60 words <&3 || fail "the terminal stayed open"
took=$((($(date +%s%N) - began) / 1000000))
watcher=
say "the terminal: $words, after $took ms"
wait "$events" 2>/dev/null || true
say "the events: cut"
code=$(curl -sS -o /dev/null -w '%{http_code}' -H @bearer "$url/api/sandboxes")
[ "$code" = 401 ] || fail "the token is still good: $code"
say "the token from now on: $code"

step "That was all. The daemon ends, and nothing is left."
