#include "common/storage/sqlite_database.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {

absl::StatusOr<SqliteFinding> FindApplication(SqliteDatabase& database, const SqliteApplication& application) {
  // One statement sees one state: another process that makes the same file between two would look like another program.
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement facts,
                             database.Prepare("SELECT application_id, user_version, count(name) FROM "
                                              "pragma_application_id, pragma_user_version LEFT JOIN sqlite_schema"));
  SPLITVEIL_RETURN_IF_ERROR(facts.Next().status());
  const int64_t id = facts.Int64(0), version = facts.Int64(1), objects = facts.Int64(2);
  if (id == 0 && version == 0 && objects == 0) {
    return SqliteFinding();
  }
  if (id != application.id) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", application.name, ", found a different SQLite database"));
  }
  return SqliteFinding{version == application.version ? SqliteContent::kApplication : SqliteContent::kOtherVersion,
                       version};
}

absl::Status SignApplication(SqliteDatabase& database, const SqliteApplication& application) {
  return database.Execute(
      absl::StrCat("PRAGMA application_id = ", application.id, "; PRAGMA user_version = ", application.version)
          .c_str());
}

namespace {

// Another run that writes to the same file commits at least every second; a backup or a person's shell may take longer.
// Half of what a peer waits for a step unless the agreement says otherwise (deadlines.step_seconds).
constexpr int kBusyTimeoutMillis = 60'000;

// SQLite would make the file readable for whom the umask lets, and what it keeps beside it like the file. What cannot
// be made here SQLite finds out, too, and says why.
void MakeForOwnerAlone(const std::string& path) {
  if (path == ":memory:") {  // SQLite's name for no file.
    return;
  }
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly);
  if (file >= 0) {
    close(file);
  }
}

// Nothing that goes wrong with a local file may read as the peer's absence (Unavailable), its refusal
// (PermissionDenied, FailedPrecondition) or a halt (ResourceExhausted): a path this party cannot use is its
// configuration's fault, and what fails behind it (full disk, no memory, another process's lock) an internal error.
absl::StatusCode CodeOf(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_CONSTRAINT:
      return absl::StatusCode::kAlreadyExists;
    case SQLITE_NOTADB:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_CORRUPT:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Of a damaged header, which has no code of its own.
bool IsDamagedHeader(int code, absl::string_view message) {
  return code == SQLITE_ERROR && message == "unsupported file format";
}

absl::Status LastError(sqlite3* connection) {
  const int code = sqlite3_extended_errcode(connection);
  if ((code & 0xff) == SQLITE_NOTADB) {
    return absl::InvalidArgumentError("expected a SQLite database, found a different kind of file");
  }
  // A refused CHECK or NOT NULL is a row that must not exist, not one that does.
  const bool duplicate = code == SQLITE_CONSTRAINT_PRIMARYKEY || code == SQLITE_CONSTRAINT_UNIQUE;
  const bool refused = (code & 0xff) == SQLITE_CONSTRAINT && !duplicate;
  // Why the disk could not be written or read: what SQLite remembers of the system's answer, if anything.
  const int system_error = (code & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(connection) : 0;
  if (IsDamagedHeader(code, sqlite3_errmsg(connection))) {
    return absl::DataLossError("SQLite: unsupported file format");
  }
  return absl::Status(refused ? absl::StatusCode::kInvalidArgument : CodeOf(code),
                      absl::StrCat("SQLite: ", sqlite3_errmsg(connection), system_error == 0 ? "" : ": ",
                                   system_error == 0 ? "" : std::strerror(system_error)));
}

absl::Status CheckPath(const std::string& path, SqliteDatabase::Mode mode) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a folder"));
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty() && !std::filesystem::is_directory(parent, ignored)) {
    return absl::NotFoundError(absl::StrCat(path, ": its folder does not exist"));
  }
  if (mode != SqliteDatabase::Mode::kCreate && !std::filesystem::exists(path, ignored)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  return absl::OkStatus();
}

// How a reader opens the file. SQLite keeps `-wal` and `-shm` files beside a file that it reads, and only a connection
// that may write takes them away again with the last one that closes. So a reader may, where that can change no byte of
// the file: with nothing in the `-wal` to be moved into it. What a writer left there, alive or not, is left alone.
int ReaderFlags(const std::string& path) {
  std::error_code error;
  const auto waiting = std::filesystem::file_size(path + "-wal", error);
  return error || waiting == 0 ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
}

}  // namespace

bool SqliteStatement::BindOne(int index, int64_t value) {
  return sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK;
}

bool SqliteStatement::BindOne(int index, double value) {
  const int code = std::isfinite(value) ? sqlite3_bind_double(statement_.get(), index, value)
                                        : sqlite3_bind_null(statement_.get(), index);
  return code == SQLITE_OK;
}

bool SqliteStatement::BindOne(int index, absl::string_view value) {
  // A null pointer would be bound as NULL, not as the empty string.
  return sqlite3_bind_text64(statement_.get(), index, value.empty() ? "" : value.data(), value.size(), SQLITE_TRANSIENT,
                             SQLITE_UTF8) == SQLITE_OK;
}

bool SqliteStatement::BindOne(int index, absl::Span<const uint8_t> value) {
  // A null pointer would be bound as NULL, not as the empty blob.
  return sqlite3_bind_blob64(statement_.get(), index, value.empty() ? "" : static_cast<const void*>(value.data()),
                             value.size(), SQLITE_TRANSIENT) == SQLITE_OK;
}

absl::Status SqliteStatement::RunBound() {
  absl::Status status = sqlite3_step(statement_.get()) == SQLITE_DONE ? absl::OkStatus() : Error();
  Reset();
  return status;
}

absl::Status SqliteStatement::RunWith(const SqliteStatement& row) {
  Reset();
  bool bound = sqlite3_bind_parameter_count(statement_.get()) == row.columns();
  for (int column = 0; bound && column < row.columns(); ++column) {
    bound = sqlite3_bind_value(statement_.get(), column + 1, sqlite3_column_value(row.statement_.get(), column)) ==
            SQLITE_OK;
  }
  return bound ? RunBound() : absl::InvalidArgumentError("expected a row with as many columns as there are values");
}

absl::StatusOr<bool> SqliteStatement::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    return false;
  }
  return Error();
}

int SqliteStatement::columns() const { return sqlite3_column_count(statement_.get()); }

int64_t SqliteStatement::Int64(int column) const { return sqlite3_column_int64(statement_.get(), column); }

double SqliteStatement::Double(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL ? std::numeric_limits<double>::quiet_NaN()
                                                                      : sqlite3_column_double(statement_.get(), column);
}

std::string SqliteStatement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

std::vector<uint8_t> SqliteStatement::Blob(int column) const {
  const auto* bytes = static_cast<const uint8_t*>(sqlite3_column_blob(statement_.get(), column));
  return {bytes, bytes + sqlite3_column_bytes(statement_.get(), column)};
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

absl::Status SqliteStatement::Error() const { return LastError(sqlite3_db_handle(statement_.get())); }

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path, Mode mode) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPath(path, mode));
  if (mode == Mode::kCreate) {
    MakeForOwnerAlone(path);
  }
  const int flags = mode == Mode::kReadOnly ? ReaderFlags(path) : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &connection, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  auto database = std::make_unique<SqliteDatabase>();
  database->connection_.reset(connection);
  if (connection == nullptr) {
    return absl::InternalError(absl::StrCat(path, ": SQLite: out of memory"));
  }
  if (code != SQLITE_OK) {
    return absl::Status(CodeOf(code), absl::StrCat(path, ": ", sqlite3_errmsg(connection)));
  }
  sqlite3_extended_result_codes(connection, 1);
  // Else a second process that commits at the same moment would be an error of the run.
  sqlite3_busy_timeout(connection, kBusyTimeoutMillis);
  // A reader may be opened for writing (ReaderFlags), but must not change a row by mistake.
  if (mode == Mode::kReadOnly) {
    SPLITVEIL_RETURN_IF_ERROR(database->Execute("PRAGMA query_only = ON"));
  }
  return database;
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  return sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus()
                                                                                      : LastError(connection_.get());
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(connection_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
    return LastError(connection_.get());
  }
  return SqliteStatement(statement);
}

absl::StatusOr<int64_t> SqliteDatabase::QueryInt64(const char* sql) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::string text, QueryText(sql));
  return std::strtoll(text.c_str(), nullptr, 10);
}

absl::StatusOr<std::string> SqliteDatabase::QueryText(const char* sql) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  SPLITVEIL_ASSIGN_OR_RETURN(bool row, statement.Next());
  return row ? statement.Text(0) : std::string();
}

}  // namespace splitveil
