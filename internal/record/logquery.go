package record

import (
	"encoding/base32"
	"encoding/binary"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// LogQuery is a Logs Insights query that was started.
//
// Writer: internal/aws/logs (StartQuery creates it, StopQuery sets Stop); internal/controller/logquery deletes
// it when its results have expired.
type LogQuery struct {
	Account string
	Region  string
	ID      string // a UUID
	// Text is the query string as it was sent. It was parsed without error when the row was made.
	Text     string
	Language logstypes.QueryLanguage
	// Groups are the names of the log groups asked, in the order of the request, and GroupIDs their IDs
	// at that time: a group made again since is another.
	Groups   []string
	GroupIDs []uint64
	// Start and End are the range of @timestamp, both inclusive, in seconds since 1970-01-01 UTC.
	Start, End int64
	// Limit is the request's limit, 0 when it named none.
	Limit     int32
	CreatedAt time.Time
	// CallerARN is the ARN of the caller that started it.
	CallerARN string
	Stop      bool
}

// LogQueryKey returns the key of a query in LogQueries and LogQueryRuns.
func LogQueryKey(account, region, id string) string { return store.Key(account, region, id) }

// LogQueries returns the table of started queries, by LogQueryKey.
func LogQueries(s *store.Store) store.Table[LogQuery] {
	return store.NewTable[LogQuery](s, "log-queries")
}

// LogQueryRun is the outcome of a query. A query without a run is waiting or running; its results, when Complete, are a
// file of internal/controller/logquery that was written before this record.
//
// Writer: internal/controller/logquery.
type LogQueryRun struct {
	Status     logstypes.QueryStatus // Complete, Failed, Cancelled or Timeout
	Reason     string                // why it failed, for the daemon's log and its user
	Statistics logstypes.QueryStatistics
	EndedAt    time.Time
}

// LogQueryRuns returns the table of ended queries, by LogQueryKey.
func LogQueryRuns(s *store.Store) store.Table[LogQueryRun] {
	return store.NewTable[LogQueryRun](s, "log-query-runs")
}

// LogQueryDefinition is a saved query.
//
// Writer: internal/aws/logs.
type LogQueryDefinition struct {
	Account      string
	Region       string
	ID           string // a UUID
	Name         string
	Text         string
	Language     logstypes.QueryLanguage
	Groups       []string
	Parameters   []logstypes.QueryParameter
	LastModified time.Time
	// ClientToken and Request (wire.Fingerprint) are of the request that created it.
	ClientToken, Request string
}

// LogQueryDefinitions returns the table of saved queries, by LogQueryKey of their ID.
func LogQueryDefinitions(s *store.Store) store.Table[LogQueryDefinition] {
	return store.NewTable[LogQueryDefinition](s, "log-query-definitions")
}

// LogPointer identifies one log event: what Logs Insights shows as @ptr.
type LogPointer struct {
	GroupID   uint64
	Timestamp int64 // of the event, in milliseconds since 1970-01-01 UTC
	Seq       uint64
}

// pointerText keeps the order of the bytes it writes.
var pointerText = base32.HexEncoding.WithPadding(base32.NoPadding)

// String returns the pointer's text. Among the events of a group the order of the texts is that of the events.
func (p LogPointer) String() string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[0:], p.GroupID)
	binary.BigEndian.PutUint64(b[8:], uint64(p.Timestamp))
	binary.BigEndian.PutUint64(b[16:], p.Seq)
	return pointerText.EncodeToString(b[:])
}

// ParseLogPointer parses what String returns; false for anything else.
func ParseLogPointer(text string) (LogPointer, bool) {
	b, err := pointerText.DecodeString(text)
	if err != nil || len(b) != 24 {
		return LogPointer{}, false
	}
	return LogPointer{
		GroupID:   binary.BigEndian.Uint64(b[0:]),
		Timestamp: int64(binary.BigEndian.Uint64(b[8:])),
		Seq:       binary.BigEndian.Uint64(b[16:]),
	}, true
}
