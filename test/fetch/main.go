// Command fetch is the client of the tests' pods: "fetch [-X METHOD] [-H NAME:VALUE] [-t SECONDS] URL" prints what is
// answered. It ends with 1 when nothing is, and with 22 when the status is 400 or more, as curl -f does. (The static
// busybox of Debian cannot look names up.) "fetch -every DURATION URL" goes on for ever, with a connection for each
// request, and prints a line for each that fails.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	method := flag.String("X", http.MethodGet, "`method`")
	header := flag.String("H", "", "`name:value` of a header")
	wait := flag.Int("t", 5, "`seconds` to wait at most")
	every := flag.Duration("every", 0, "ask again and again, with that `pause` in between")
	flag.Parse()
	if *every > 0 {
		watch(flag.Arg(0), *every, time.Duration(*wait)*time.Second)
	}
	os.Exit(fetch(*method, flag.Arg(0), *header, time.Duration(*wait)*time.Second))
}

// watch asks for ever. Every second it says how many answers there were.
func watch(url string, every, wait time.Duration) {
	client := &http.Client{Timeout: wait, Transport: &http.Transport{DisableKeepAlives: true}}
	answered, said := 0, time.Now()
	for pace := time.NewTicker(every); ; <-pace.C {
		began := time.Now()
		response, err := client.Get(url)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err == nil && response.StatusCode >= http.StatusBadRequest {
				err = fmt.Errorf("%s", response.Status)
			}
		}
		if err != nil {
			fmt.Printf("FAILED %s after %d answers and %s: %v\n", began.UTC().Format("15:04:05.000"), answered,
				time.Since(began).Round(time.Millisecond), err)
			continue
		}
		if answered++; time.Since(said) >= time.Second {
			fmt.Println("answered", answered)
			said = time.Now()
		}
	}
}

func fetch(method, url, header string, wait time.Duration) int {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		return 2
	}
	if name, value, found := strings.Cut(header, ":"); found {
		request.Header.Set(name, strings.TrimSpace(value))
	}
	response, err := (&http.Client{Timeout: wait}).Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		return 1
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		return 1
	}
	if response.StatusCode >= http.StatusBadRequest {
		fmt.Fprintln(os.Stderr, "fetch:", response.Status)
		return 22
	}
	return 0
}
