// Command fetch is the client of the tests' pods: "fetch [-X METHOD] [-H NAME:VALUE] [-t SECONDS] URL" prints what is answered. It
// ends with 1 when nothing is, and with 22 when the status is 400 or more, as curl -f does. (The static busybox of Debian cannot look names up.)
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
	flag.Parse()
	os.Exit(fetch(*method, flag.Arg(0), *header, time.Duration(*wait)*time.Second))
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
