package record

import (
	"fmt"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// LogGroup is a CloudWatch log group.
//
// Writer: internal/aws/logs. When the row is gone, internal/controller/logretention deletes what the group
// left: its streams' rows and its events.
type LogGroup struct {
	Account string
	Region  string
	Name    string
	// ID is the key of the group's streams and events, never 0. A group created again under an old name has a new ID.
	ID            uint64
	CreatedAt     time.Time
	Class         logstypes.LogGroupClass
	RetentionDays int32 // 0 is for ever
	Protected     bool  // against deletion
	Tags          map[string]string
}

// LogGroupKey returns the key of a log group.
func LogGroupKey(account, region, name string) string { return store.Key(account, region, name) }

// ARN returns the log group's Amazon Resource Name, without the ":*" that some answers append.
func (g LogGroup) ARN() string {
	return "arn:aws:logs:" + g.Region + ":" + g.Account + ":log-group:" + g.Name
}

// LogGroups returns the table of log groups, by LogGroupKey.
func LogGroups(s *store.Store) store.Table[LogGroup] {
	return store.NewTable[LogGroup](s, "log-groups")
}

// LogStream is a log stream of a group. What it holds, and since when, is known to the store of log events
// (internal/logs/events).
//
// Writer: internal/aws/logs; internal/controller/logretention deletes the rows of groups that are gone, and adds the
// account to rows that were written before they had one.
type LogStream struct {
	Account   string // of the group, which the row is charged to
	GroupID   uint64
	Name      string
	ID        uint64 // unique in the group, never 0; a stream created again has a new one
	CreatedAt time.Time
}

// LogStreamKey returns the key of a log stream.
func LogStreamKey(groupID uint64, name string) string {
	return store.Key(fmt.Sprintf("%016x", groupID), name)
}

// LogStreams returns the table of log streams, by LogStreamKey.
func LogStreams(s *store.Store) store.Table[LogStream] {
	return store.NewTable[LogStream](s, "log-streams")
}

// LogStreamsByID finds log streams by LogStreamID.
func LogStreamsByID(s *store.Store) store.Index[LogStream] {
	return store.NewIndex(LogStreams(s), "id", func(r LogStream) string { return LogStreamID(r.GroupID, r.ID) })
}

// LogStreamID returns what LogStreamsByID finds a stream by.
func LogStreamID(groupID, id uint64) string { return fmt.Sprintf("%x/%x", groupID, id) }
