package index

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Away reports whether an error says that the database cannot be reached or does not
// take requests now. It may be back in a moment, and nothing is wrong with what it has.
func Away(err error) bool {
	var connecting *pgconn.ConnectError
	var network net.Error
	var said *pgconn.PgError
	switch {
	case errors.As(err, &connecting), errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &said):
		// Connection exceptions, too many connections, a server that stops or starts.
		return strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "57P") || said.Code == "53300"
	}
	return false
}
