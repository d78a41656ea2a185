#include "common/operations/operator_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/transport/credentials.h"

namespace splitveil {

grpc::Status OperationsService::GetStatus(grpc::ServerContext* /*context*/, const v1::GetStatusRequest* /*request*/,
                                          v1::GetStatusResponse* response) {
  *response = status_->Snapshot();
  return grpc::Status::OK;
}

namespace {

constexpr char kStatusSocket[] = "party.status_socket";
constexpr int kBacklog = 128;
constexpr mode_t kOthersAndExecution = 0177;

absl::Status Unusable(absl::string_view field, absl::string_view path, absl::string_view expected,
                      absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", path, ": expected ", expected, ", found ", found));
}

// Whether a process accepts connections at the socket `file`.
bool IsServed(const std::string& file) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  file.copy(address.sun_path, sizeof(address.sun_path) - 1);
  // A socket file outlives a killed process: only a connection shows whether somebody still serves it.
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return false;
  }
  const bool served = connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(descriptor);
  return served;
}

}  // namespace

std::string StatusSocketPath(const v1::PartyCommon& party) {
  return party.status_socket().empty() ? party.ledger_path() + ".sock" : party.status_socket();
}

absl::StatusOr<SocketAddress> SocketAddress::Of(const std::string& path, const std::string& field) {
  const std::filesystem::path parts(path);
  const std::string folder = parts.has_parent_path() ? parts.parent_path().string() : ".";
  // A socket's address has room for 107 bytes; by way of the folder's descriptor only the file's name has to fit.
  const int descriptor = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return Unusable(field, path, "a folder that can be opened", std::strerror(errno));
  }
  SocketAddress address(descriptor, parts.filename().string());
  if (address.file().size() >= sizeof(sockaddr_un::sun_path)) {
    return Unusable(field, path, "a shorter file name", absl::StrCat(address.name_.size(), " bytes"));
  }
  return address;
}

SocketAddress::SocketAddress(int folder, std::string name) : folder_(folder), name_(std::move(name)) {}

SocketAddress::SocketAddress(SocketAddress&& other) noexcept
    : folder_(std::exchange(other.folder_, -1)), name_(std::move(other.name_)) {}

SocketAddress& SocketAddress::operator=(SocketAddress&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(name_, other.name_);
  return *this;
}

SocketAddress::~SocketAddress() {
  if (folder_ >= 0) {
    close(folder_);
  }
}

std::string SocketAddress::file() const { return absl::StrCat("/proc/self/fd/", folder_, "/", name_); }

namespace {

// The address of `path`, where nobody listens.
absl::StatusOr<SocketAddress> FreeSocket(const std::string& field, const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(SocketAddress address, SocketAddress::Of(path, field));
  struct stat there = {};
  if (lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode)) {
    return Unusable(field, path, "a socket or no file", "another kind of file");
  }
  if (IsServed(address.file())) {
    return Unusable(field, path, "a socket that nobody listens on", "another party's");
  }
  return address;
}

}  // namespace

absl::StatusOr<OperatorServer> StartOperatorServer(const std::string& path, grpc::Service* service) {
  return StartSocketServer({kStatusSocket, path}, {service});
}

absl::StatusOr<OperatorServer> StartSocketServer(const SocketServerOptions& options,
                                                 const std::vector<grpc::Service*>& services) {
  SPLITVEIL_ASSIGN_OR_RETURN(SocketAddress address, FreeSocket(options.field, options.path));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int bound = 0;
  // Without TLS: permissions of the socket file decide who may connect.
  builder.AddListeningPort(address.grpc_name(), grpc::InsecureServerCredentials(), &bound);
  builder.SetResourceQuota(grpc::ResourceQuota("operator").SetMaxThreads(options.max_threads));
  LimitServer(builder, options.max_message_bytes);
  for (grpc::Service* const service : services) {
    builder.RegisterService(service);
  }
  const mode_t before = umask(kOthersAndExecution);  // Never open to others, not even for a moment.
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  umask(before);
  if (server == nullptr || bound == 0) {
    return Unusable(options.field, options.path, "a place for a socket", "none");
  }
  return OperatorServer{std::move(address), std::move(server)};
}

absl::StatusOr<Descriptor> ListenAtSocket(const std::string& field, const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SocketAddress address, FreeSocket(field, path));
  Descriptor listening(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  address.file().copy(name.sun_path, sizeof(name.sun_path) - 1);
  (void)unlink(path.c_str());
  const mode_t before = umask(kOthersAndExecution);
  const bool bound = bind(listening.number(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  umask(before);
  return bound && listen(listening.number(), kBacklog) == 0
             ? absl::StatusOr<Descriptor>(std::move(listening))
             : Unusable(field, path, "a place for a socket", std::strerror(errno));
}

}  // namespace splitveil
