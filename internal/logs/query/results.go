package query

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

// A results' file is one zstd frame with its checksum: a line that names the format; the number of columns
// and their names; the number of rows and, row by row, a cell for each column. Numbers are varints; a text
// is its length and its bytes; a cell is 0 when the row lacks the field, otherwise 1 more than the length of
// its text, and the text.
const resultsFormat = "coracle logs results 1\n"

// writeResults makes the file of a result, durably and at once.
func writeResults(path string, result *insights.Result) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "writing-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name()) //nolint:errcheck // the next start of the daemon tries again
		}
	}()
	encoder, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(encoder)
	var buf []byte
	number := func(n int) { buf = binary.AppendUvarint(buf, uint64(n)) }
	buf = append(buf, resultsFormat...)
	number(len(result.Columns))
	for _, c := range result.Columns {
		number(len(c))
		buf = append(buf, c...)
	}
	number(len(result.Rows))
	for _, row := range result.Rows {
		for _, v := range row {
			if v.IsNull() {
				number(0)
				continue
			}
			text := v.String()
			number(len(text) + 1)
			buf = append(buf, text...)
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	if _, err := w.Write(buf); err != nil {
		return err
	}
	if err := errors.Join(w.Flush(), encoder.Close(), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// readResults reads what writeResults wrote.
func readResults(path string) ([][]logstypes.ResultField, error) {
	rows, err := func() ([][]logstypes.ResultField, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		decoder, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		defer decoder.Close()
		return decodeResults(bufio.NewReader(decoder))
	}()
	if err != nil {
		return nil, fmt.Errorf("read the results of the query: %w", err)
	}
	return rows, nil
}

var errResults = errors.New("the file is not one of results")

func decodeResults(r *bufio.Reader) ([][]logstypes.ResultField, error) {
	format := make([]byte, len(resultsFormat))
	if _, err := io.ReadFull(r, format); err != nil {
		return nil, err
	}
	if string(format) != resultsFormat {
		return nil, errResults
	}
	number := func() (int, error) {
		n, err := binary.ReadUvarint(r)
		if err == nil && n > math.MaxInt32 {
			err = errResults
		}
		return int(n), err
	}
	text := func(n int) (*string, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		s := unsafe.String(unsafe.SliceData(b), n) // nobody else has b
		return &s, err
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	columns := make([]*string, n)
	for i := range columns {
		n, err := number()
		if err != nil {
			return nil, err
		}
		if columns[i], err = text(n); err != nil {
			return nil, err
		}
	}
	if n, err = number(); err != nil {
		return nil, err
	}
	rows := make([][]logstypes.ResultField, n)
	for i := range rows {
		rows[i] = make([]logstypes.ResultField, 0, len(columns))
		for c := range columns {
			n, err := number()
			if err != nil {
				return nil, err
			}
			if n == 0 {
				continue
			}
			value, err := text(n - 1)
			if err != nil {
				return nil, err
			}
			rows[i] = append(rows[i], logstypes.ResultField{Field: columns[c], Value: value})
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) { // reads the checksum, too
		return nil, errors.Join(errResults, err)
	}
	return rows, nil
}

// resultFields are a result's rows as GetQueryResults shows them.
func resultFields(result *insights.Result) [][]logstypes.ResultField {
	rows := make([][]logstypes.ResultField, len(result.Rows))
	for i, row := range result.Rows {
		rows[i] = make([]logstypes.ResultField, 0, len(row))
		for c, v := range row {
			if !v.IsNull() {
				text := v.String()
				rows[i] = append(rows[i], logstypes.ResultField{Field: &result.Columns[c], Value: &text})
			}
		}
	}
	return rows
}
