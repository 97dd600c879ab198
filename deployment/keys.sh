#!/usr/bin/env bash
# Writes a certificate authority, the server's TLS certificate and one key pair a client.
# Usage: keys.sh FOLDER SERVER_NAME [SERVER_ADDRESS] N_CLIENTS     e.g. keys.sh keys fl.example.org 192.0.2.10 3
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,3p "$0" >&2; exit 2; }
folder=$1 name=$2 n=${*: -1}
names="DNS:$name,DNS:localhost,IP:127.0.0.1"
[ $# -eq 4 ] && names="$names,IP:$3"
[ ! -e "$folder/ca.crt" ] || { echo "$folder has keys already; with new ones every ca.crt that was handed out stops working" >&2; exit 2; }
umask 077
mkdir -p "$folder"
cd "$folder"
openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -x509 -new -key ca.key -sha256 -days 365 -subj "/CN=federation CA" -out ca.crt
openssl ecparam -name prime256v1 -genkey -noout -out server.key
openssl req -new -key server.key -subj "/CN=$name" -out server.csr
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days 365 \
  -extfile <(printf 'subjectAltName=%s' "$names") -out server.crt
for ((k = 0; k < n; k++)); do
  ssh-keygen -q -t ecdsa -b 384 -N '' -C "client $k" -f "$(printf 'client-%04d' "$k")"
done
rm server.csr
