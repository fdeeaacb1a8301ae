package datapoint

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 11, 30, 12, 0, 30, 0, time.UTC)

func metric(account, name string) Metric {
	return Metric{Account: account, Region: "us-east-1", Namespace: "N", Name: name, Unit: "Bytes"}
}

func values(s *Store, m Metric) (all []float64) {
	points, _ := s.Points(m, time.Time{}, start.Add(1000*time.Hour))
	for _, p := range points {
		all = append(all, p.Value)
	}
	return all
}

func TestPoints(t *testing.T) {
	t.Parallel()
	s, m := New(), metric("111122223333", "M")
	add := func(minutes int, value float64) {
		t.Helper()
		if err := s.Add(start.Add(time.Duration(minutes)*time.Minute), []Sample{{m, value}}); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 1)
	add(0, 2) // another one of the same minute is the one that counts
	add(3, 5)
	if d := cmp.Diff([]float64{2, 5}, values(s, m)); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
	points, unit := s.Points(m, start.Truncate(time.Minute), start.Add(3*time.Minute).Truncate(time.Minute))
	if want := []Point{{start.Truncate(time.Minute), 2}}; !cmp.Equal(points, want) || unit != "Bytes" {
		t.Errorf("the end is not part of the time: got %v %s, want %v", points, unit, want)
	}
	add(182, 7)
	if d := cmp.Diff([]float64{5, 7}, values(s, m)); d != "" {
		t.Errorf("values after three hours (-want +got):\n%s", d)
	}
	add(1, 9)
	if d := cmp.Diff([]float64{5, 7}, values(s, m)); d != "" {
		t.Errorf("values with a clock that was set back for long (-want +got):\n%s", d)
	}
	add(1000, 11)
	if d := cmp.Diff([]float64{11}, values(s, m)); d != "" {
		t.Errorf("values after a day (-want +got):\n%s", d)
	}
}

func TestMetricsOfAccounts(t *testing.T) {
	t.Parallel()
	s := New()
	host := metric("1", "Host")
	host.Region = ""
	if err := s.Add(start, []Sample{{metric("1", "Mine"), 1}, {metric("2", "Theirs"), 2}, {host, 3}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range s.List("1", "us-east-1", "N", "") {
		names = append(names, m.Name)
	}
	if d := cmp.Diff([]string{"Host", "Mine"}, names); d != "" {
		t.Errorf("metrics of account 1 (-want +got):\n%s", d)
	}
	if n := len(s.List("1", "eu-west-1", "", "")); n != 1 {
		t.Errorf("%d metrics in another region, want that of the host", n)
	}
	if got := values(s, metric("1", "Theirs")); got != nil {
		t.Errorf("account 1 reads %v of account 2", got)
	}
	if n := len(s.List("2", "us-east-1", "", "")); n != 1 {
		t.Errorf("account 2 has %d metrics, want its own", n)
	}
	if got := values(s, metric("2", "Host")); got != nil {
		t.Errorf("account 2 reads %v of the host, whose metrics are account 1's", got)
	}
	if got := values(s, metric("1", "Host")); !cmp.Equal(got, []float64{3}) {
		t.Errorf("account 1 reads %v of the host, want 3", got)
	}
}

func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	s := New()
	many := make([]Sample, maxAccountMetrics+1)
	for i := range many {
		many[i].Metric = metric("1", strconv.Itoa(i))
	}
	if err := s.Add(start, many); !errors.Is(err, ErrFull) {
		t.Errorf("an account with too many metrics: got %v, want %v", err, ErrFull)
	}
	if err := s.Add(start, []Sample{{metric("2", "M"), 1}}); err != nil {
		t.Errorf("another account has no room: %v", err)
	}
	if err := s.Add(start.Add(Retention), nil); err != nil {
		t.Fatal(err)
	}
	if n := len(s.metrics) + len(s.counts); n != 0 {
		t.Errorf("%d metrics and accounts are kept without data points", n)
	}
}
