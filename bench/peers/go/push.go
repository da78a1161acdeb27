// A push endpoint on net/http: RS256 token (valid ones are kept), JSON envelope, 204.
package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const capacity = 1024

type setup struct {
	JWKS         string `json:"jwks"`
	Audience     string `json:"audience"`
	Account      string `json:"account"`
	Subscription string `json:"subscription"`
}

type envelope struct {
	Message struct {
		Data        []byte            `json:"data"`
		MessageID   string            `json:"messageId"`
		Attributes  map[string]string `json:"attributes"`
		PublishTime string            `json:"publishTime"`
	} `json:"message"`
	Subscription    string `json:"subscription"`
	DeliveryAttempt int    `json:"deliveryAttempt"`
}

type verifier struct {
	setup setup
	keys  map[string]*rsa.PublicKey
	lock  sync.Mutex
	valid map[string]int64
	order []string
	next  int
}

func decoded(part string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(part) }

func (v *verifier) load() {
	raw, err := os.ReadFile(v.setup.JWKS)
	if err != nil {
		log.Fatal(err)
	}
	var set struct {
		Keys []struct{ Kid, N, E string } `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		log.Fatal(err)
	}
	for _, key := range set.Keys {
		n, _ := decoded(key.N)
		e, _ := decoded(key.E)
		v.keys[key.Kid] = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	}
}

func (v *verifier) keep(token string, expires int64) {
	v.lock.Lock()
	defer v.lock.Unlock()
	if len(v.order) < capacity {
		v.order = append(v.order, token)
	} else {
		delete(v.valid, v.order[v.next])
		v.order[v.next] = token
		v.next = (v.next + 1) % capacity
	}
	v.valid[token] = expires
}

func (v *verifier) holds(authorization string) bool {
	token, found := strings.CutPrefix(authorization, "Bearer ")
	if !found {
		return false
	}
	now := time.Now().Unix()
	v.lock.Lock()
	expires, known := v.valid[token]
	v.lock.Unlock()
	if known && expires > now {
		return true
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		Aud      string `json:"aud"`
		Iss      string `json:"iss"`
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
		Iat      int64  `json:"iat"`
		Exp      int64  `json:"exp"`
	}
	head, err1 := decoded(parts[0])
	said, err2 := decoded(parts[1])
	signature, err3 := decoded(parts[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return false
	}
	if json.Unmarshal(head, &header) != nil || json.Unmarshal(said, &claims) != nil || header.Alg != "RS256" {
		return false
	}
	key := v.keys[header.Kid]
	if key == nil {
		return false
	}
	digest := sha256.Sum256([]byte(token[:len(parts[0])+1+len(parts[1])]))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) != nil {
		return false
	}
	issued := claims.Iss == "https://accounts.google.com" || claims.Iss == "accounts.google.com"
	if claims.Aud != v.setup.Audience || !issued || claims.Email != v.setup.Account || !claims.Verified {
		return false
	}
	if claims.Iat-30 > now || claims.Exp+30 < now {
		return false
	}
	v.keep(token, claims.Exp)
	return true
}

func main() {
	raw, err := os.ReadFile(os.Getenv("BENCH_SETUP"))
	if err != nil {
		log.Fatal(err)
	}
	v := &verifier{keys: map[string]*rsa.PublicKey{}, valid: map[string]int64{}}
	if err := json.Unmarshal(raw, &v.setup); err != nil {
		log.Fatal(err)
	}
	v.load()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !v.holds(r.Header.Get("Authorization")) {
			w.WriteHeader(401)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 14<<20))
		var push envelope
		if err != nil || json.Unmarshal(body, &push) != nil || push.Message.MessageID == "" {
			w.WriteHeader(500)
			return
		}
		if push.Subscription != v.setup.Subscription {
			w.WriteHeader(403)
			return
		}
		w.WriteHeader(204)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
