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

namespace splitveil {

grpc::Status OperationsService::GetStatus(grpc::ServerContext* /*context*/, const v1::GetStatusRequest* /*request*/,
                                          v1::GetStatusResponse* response) {
  *response = status_->Snapshot();
  return grpc::Status::OK;
}

namespace {

constexpr int kMaxThreads = 4;

absl::Status Unusable(const std::string& path, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("party.status_socket: ", path, ": expected ", expected, ", found ", found));
}

// Whether somebody accepts connections at the socket `file`.
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

absl::StatusOr<SocketAddress> SocketAddress::Of(const std::string& path) {
  const std::filesystem::path parts(path);
  const std::string folder = parts.has_parent_path() ? parts.parent_path().string() : ".";
  // A socket's address has room for 107 bytes; by way of the folder's descriptor only the file's name has to fit.
  const int descriptor = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return Unusable(path, "a folder that can be opened", std::strerror(errno));
  }
  SocketAddress address(descriptor, parts.filename().string());
  if (address.file().size() >= sizeof(sockaddr_un::sun_path)) {
    return Unusable(path, "a shorter file name", absl::StrCat(address.name_.size(), " bytes"));
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

absl::StatusOr<OperatorServer> StartOperatorServer(const std::string& path, grpc::Service* service) {
  SPLITVEIL_ASSIGN_OR_RETURN(SocketAddress address, SocketAddress::Of(path));
  struct stat there = {};
  if (lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode)) {
    return Unusable(path, "a socket or no file", "another kind of file");
  }
  if (IsServed(address.file())) {
    return Unusable(path, "a socket that nobody listens on", "another party's");
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int bound = 0;
  // The file system is what tells the operator from others.
  builder.AddListeningPort(address.grpc_name(), grpc::InsecureServerCredentials(), &bound);
  builder.SetResourceQuota(grpc::ResourceQuota("operator").SetMaxThreads(kMaxThreads));
  builder.RegisterService(service);
  const mode_t before = umask(0177);  // From its first moment on.
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  umask(before);
  if (server == nullptr || bound == 0) {
    return Unusable(path, "a place for a socket", "none");
  }
  return OperatorServer{std::move(address), std::move(server)};
}

}  // namespace splitveil
