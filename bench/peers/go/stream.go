// NDJSON on net/http: a write and a flush for every event, which are ready-made bytes.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	line := []byte(`{"event_id":"0123456789ab-1","event_type":"tick","payload":{"text":"` + strings.Repeat("x", 90) +
		`","n":1},"timestamp":"2026-01-01T00:00:00.000Z"}` + "\n")
	http.HandleFunc("/execute/stream", func(w http.ResponseWriter, r *http.Request) {
		var job struct {
			Payload int `json:"payload"`
		}
		if json.NewDecoder(r.Body).Decode(&job) != nil {
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		flusher := w.(http.Flusher)
		for range job.Payload {
			if _, err := w.Write(line); err != nil {
				return
			}
			flusher.Flush()
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
